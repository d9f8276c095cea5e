"""Admission: legacy GPU limits become claims, and requests are checked before they are kept."""
