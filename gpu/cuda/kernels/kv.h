// kv.h is where a row's key or value lies in the KV arena: a page (16 tokens, gpu.PageSize) has its G heads one
// after the other, of each the keys or values as (16,D), so that a head's page is one run of memory.
#pragma once
#include "dev.h"

// place_in_arena is the first element of a head of the row in a slot.
DEVICE int64_t place_in_arena(int slot, int head, int g, int d) {
	return (((int64_t)(slot / 16) * g + head) * 16 + slot % 16) * d;
}
