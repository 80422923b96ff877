// SPDX-License-Identifier: GPL-2.0
/* Tells the instruction counter to start or to stop: marker start|stop */
#include "markers.h"

#include <string.h>

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "start")) {
		MARK(START_MARKER);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "stop")) {
		MARK(STOP_MARKER);
		return 0;
	}
	return 2;
}
