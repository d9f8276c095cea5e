"""The file in which the processes of a container share HAMi-core's bookkeeping, read and answered.

Whatever is in it was written by a container, so it is judged as text from a stranger is: no number
is believed to fit before it was looked at, and no read waits for a writer.
"""
