"""What arms of one architecture share, whatever they index: dense, late interaction, rerank."""
