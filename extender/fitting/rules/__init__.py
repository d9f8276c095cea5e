"""What single vendors do otherwise than all."""
