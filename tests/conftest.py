"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Examples that are slow on a busy machine are no failures; pytest's timeout ends endless ones.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
