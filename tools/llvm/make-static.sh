#!/bin/sh
# Fills static/lib with linker scripts that stand for the shared libraries which the build asks for, and name Debian's
# static archives instead: MLIR, LLVM with the back ends for AMD GPUs, PTX and SPIR-V, zlib, the C++ library and the
# unwinder. What remains shared is the C library.
set -eu
cd "$(dirname "$0")/static/lib"
llvm=/usr/lib/llvm-22
# MLIR registers every back end that LLVM was built with; those that zmlc has no use for become empty functions.
for target in $($llvm/bin/llvm-config --targets-built); do
    case $target in AMDGPU | NVPTX | SPIRV) continue ;; esac
    for part in TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler; do
        echo "void LLVMInitialize$target$part(void) {}"
    done
done >targets.c
$llvm/bin/clang -O1 -c targets.c -o targets.o
{
    echo "GROUP ("
    echo "$PWD/targets.o"
    ls $llvm/lib/libMLIR*.a $llvm/lib/libLLVM*.a | grep -v -e MLIRCAPIExecutionEngine -e ExecutionEngineStatic -e libMLIRTest
    gcc -print-file-name=libz.a
    echo ")"
} >libMLIR-C.so
echo "INPUT ( )" >libMLIR.so
echo "INPUT ( )" >libLLVM-22.so
echo "GROUP ( $(g++ -print-file-name=libstdc++.a) )" >libstdc++.so
echo "GROUP ( $(gcc -print-file-name=libgcc_eh.a) $(gcc -print-libgcc-file-name) )" >libgcc_s.so
