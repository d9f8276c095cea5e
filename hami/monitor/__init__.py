"""HAMi's monitor: what containers really use, read from the regions of HAMi-core.

Concurrency: one thread scans regions and gives feedback every few seconds; scrapes read what the
newest finished scan has found.
"""
