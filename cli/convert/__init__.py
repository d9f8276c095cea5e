"""Manifests in HAMi's words, turned into claims without a cluster."""
