"""Say why a pod is pending: device by device, rule by rule, and what would make it fit.

The verdict is that of `sim.scheduler`, which is asked as a scheduler asks it; this package finds
the values and the holders behind each refusal, and tries changes by asking again.
"""
