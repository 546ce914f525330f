"""Files: atomic writes, arrays in npz files, and arrays that are mapped from disk."""
