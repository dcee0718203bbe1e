"""From one checkpoint to another: converting and comparing, whatever their formats."""
