#!/bin/sh
# Fills mlir/lib with what mlir-sys' shared mode looks for and Debian does not ship: library names and a linker script
# that stands for libMLIR-C.so.
set -eu
cd "$(dirname "$0")/mlir/lib"
llvm=/usr/lib/llvm-22/lib
ln -sf $llvm/libMLIR.so libMLIR.so
ln -sf $llvm/libLLVM.so libLLVM-22.so
ln -sf libLLVM-22.so libLLVM.so
{
    echo "GROUP ("
    ls $llvm/libMLIRCAPI*.a | grep -v ExecutionEngineStatic
    echo ")"
    echo "INPUT ( $llvm/libMLIR.so $llvm/libLLVM.so )"
} >libMLIR-C.so
