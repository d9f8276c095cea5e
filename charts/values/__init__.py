"""What may stand in the values of the chart: the source of its schema and of docs/values.md.

`tree` is the whole; each program's `settings` are those of its own settings model.
"""
