"""HAMi's protocol: its words, annotations and node side, for the clusters that run it today."""
