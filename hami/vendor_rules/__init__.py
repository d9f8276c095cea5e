"""What each vendor's backend in HAMi does with a container at admission, one module per habit.

A rule reads one container's words to one vendor through `Asking` and returns the request that
HAMi's scheduler will book, or `None`. Where HAMi makes an empty request of what it cannot read,
which its scheduler takes for a pod without devices, a rule refuses.
"""
