"""The pictures of a diagnosis: what is drawn (moments, lanes, cells), and Altair charts of it for a notebook."""
