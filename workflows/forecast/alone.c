/* The atmosphere by itself: a table of its mass, its energy and its fastest wind, every so many hours.
 *
 *     build/alone LON LAT HOURS STEP DIFFUSION BUMP      step [s], diffusion [m2/s], height of the bump [m]
 */
#include <stdio.h>
#include <stdlib.h>

#include "atmosphere.h"

int main(int count, char **words) {
    if (count != 7) {
        fputs("usage: alone LON LAT HOURS STEP DIFFUSION BUMP\n", stderr);
        return 2;
    }
    const int hours = atoi(words[3]), every = hours < 12 ? 1 : hours / 12;
    atmosphere *air = atmosphere_new((size_t)atol(words[1]), (size_t)atol(words[2]), 80.0, atof(words[5]));
    if (air == NULL) {
        fputs("there is no memory for this grid, or it has fewer than 4 rows or columns\n", stderr);
        return 1;
    }
    atmosphere_bump(air, atof(words[6]), 0.0, 45.0);
    puts("hour,mass_m3,energy_m5_s2,fastest_m_s");
    for (int hour = 0; hour <= hours; hour += every) {
        printf("%d,%.17g,%.17g,%.17g\n", hour, atmosphere_mass(air), atmosphere_energy(air), atmosphere_fastest(air));
        atmosphere_advance(air, 3600.0 * every, atof(words[4]));
    }
    atmosphere_free(air);
    return 0;
}
