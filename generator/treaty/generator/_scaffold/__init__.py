"""`treaty scaffold`: from a state that somebody has to the schema file that a careful person would have written.

observe (`factory`, `sizes`) -> structure (`align`, `families`, `twins`) -> names and ties (`classes`, `dim_names`, `class_names`) -> text
(`emit`, `layout`). All but the first step are pure.
"""
