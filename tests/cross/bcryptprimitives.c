/* For tests under wine only, which has no bcryptprimitives.dll: its one function that Rust's standard library uses. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
    return RtlGenRandom(buffer, (ULONG)length);
}
