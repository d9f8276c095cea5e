"""The domain: GPUs, shares of them, requests for them, and the one place that speaks NVML."""
