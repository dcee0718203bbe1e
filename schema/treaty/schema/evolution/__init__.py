"""How a schema changes: revisions, migrations between them, and what becomes of a checkpoint of an earlier one."""
