#include "tools/commands.h"

int main(int argc, char** argv) { return quadfs::tools::Main(argc, argv); }
