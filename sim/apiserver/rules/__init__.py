"""The rules that go beyond types: what the server's hand-written validation refuses.

Sources: kubernetes pkg/apis/resource/validation/validation.go and pkg/apis/core/validation; the
choice is what a DRA driver, its webhook and its users can get wrong.
"""
