#pragma once

namespace camber::benchmarks {

/// Resident memory of this process now, and its peak since it began or since restart_peak().
double resident_bytes();
double peak_resident_bytes();

/// Hands free memory back and makes the peak start anew from what is resident now.
void restart_peak();

}  // namespace camber::benchmarks
