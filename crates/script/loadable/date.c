/* date: numbers, of seconds, or of a day in UTC. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pattern.h"
#include "request.h"

enum { LONGEST = 512 };

struct day {
    long year;
    int month, day, of_year;
};

/* The day of so many days since 1970-01-01. Without the C library's gmtime, which would have the shell look
   for its time zone. Years begin in March here, so that the day that is not always there is their last. */
static struct day day_of(long days)
{
    long from_march = days + 719468, era = from_march / 146097, of_era = from_march % 146097;
    long year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_march = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month = (5 * of_march + 2) / 153;
    struct day day = {.day = of_march - (153 * month + 2) / 5 + 1};
    day.month = month < 10 ? month + 3 : month - 9;
    day.year = era * 400 + year_of_era + (day.month <= 2);
    bool is_leap = day.year % 4 == 0 && (day.year % 100 != 0 || day.year % 400 == 0);
    day.of_year = day.month <= 2 ? of_march - 306 + 1 : of_march + 60 + is_leap;
    return day;
}

/* What stands for one letter. False: it is a name, or of some time zone. */
static bool put_number(char letter, const struct timespec *now, bool is_utc, char *to)
{
    struct day day = day_of(now->tv_sec / 86400);
    int of_day = now->tv_sec % 86400;
    switch (letter) {
    case '%': return sprintf(to, "%%");
    case 'n': return sprintf(to, "\n");
    case 't': return sprintf(to, "\t");
    case 's': return sprintf(to, "%ld", (long)now->tv_sec);
    case 'N': return sprintf(to, "%09ld", now->tv_nsec);
    }
    if (!is_utc)
        return false;
    switch (letter) {
    case 'Y': return sprintf(to, "%ld", day.year);
    case 'y': return sprintf(to, "%02ld", day.year % 100);
    case 'm': return sprintf(to, "%02d", day.month);
    case 'd': return sprintf(to, "%02d", day.day);
    case 'j': return sprintf(to, "%03d", day.of_year);
    case 'H': return sprintf(to, "%02d", of_day / 3600);
    case 'M': return sprintf(to, "%02d", of_day / 60 % 60);
    case 'S': return sprintf(to, "%02d", of_day % 60);
    case 'F': return sprintf(to, "%ld-%02d-%02d", day.year, day.month, day.day);
    case 'T': return sprintf(to, "%02d:%02d:%02d", of_day / 3600, of_day / 60 % 60, of_day % 60);
    }
    return false;
}

static bool put_format(const char *format, const struct timespec *now, bool is_utc, char *to)
{
    char *end = to + LONGEST;
    for (; *format; format++) {
        if (end - to < 32)
            return false;
        if (*format != '%')
            *to++ = *format;
        else if (put_number(*++format, now, is_utc, to))
            to += strlen(to);
        else
            return false;
    }
    strcpy(to, "\n");
    return true;
}

bool act_date(struct request *request)
{
    struct timespec now;
    char said[LONGEST + 1];
    if (!options(request, "u") || left(request) != 1 || operand(request)[0] != '+' ||
        !is_ascii(operand(request), strlen(operand(request))) || clock_gettime(CLOCK_REALTIME, &now) != 0 ||
        now.tv_sec < 0)
        return false;
    return put_format(operand(request) + 1, &now, has(request, 'u'), said) &&
           say(said, strlen(said));
}
