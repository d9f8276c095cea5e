"""Scrapes once a second: `python -m tests.bench.extender.scraping HOST:PORT`; prints milliseconds.

In a process of its own, as Prometheus is: in the one that asks it would hold up the questions.
"""

import sys
import time
from http.client import HTTPConnection


def scrape(address: str) -> float:
    """Return the milliseconds that one scrape takes."""
    began = time.perf_counter()
    connection = HTTPConnection(address, timeout=60)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    while answer.read1(1 << 20):
        pass
    connection.close()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    while True:
        time.sleep(1.0)
        sys.stdout.write(f"scraped {scrape(sys.argv[1]):.1f}\n")
        sys.stdout.flush()
