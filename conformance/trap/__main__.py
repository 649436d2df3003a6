"""Prints the path of the plugin's library, for HAL_PLUGIN_PATH."""

from . import library_path

print(library_path())
