"""How strong the inputs of healthy models are, and what survivors say of wrong ones: docs/strength-models.md."""
