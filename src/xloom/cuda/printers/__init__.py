"""A program for a GPU at each stage, as text for people."""

from xloom.cuda.printers.kernel_choices import kernel_choices_text
from xloom.cuda.printers.launches import launches_text
from xloom.cuda.printers.modules import llvm_text, prepared_text, ptx_text, sass_text

__all__ = ["kernel_choices_text", "launches_text", "llvm_text", "prepared_text", "ptx_text", "sass_text"]
