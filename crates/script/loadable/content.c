/* cat: small files, written at once. */
#include "input.h"
#include "request.h"

bool act_cat(struct request *request)
{
    struct input input;
    return options(request, "") && take_input(request, &input) &&
           say_for(&input, input.bytes, input.size);
}
