// The three calls of MPWide that the benchmark makes, for a test of the benchmark: MPWide has many more.
#include <string>

int MPW_CreatePath(std::string host, int server_side_base_port, int num_streams);
int MPW_SendRecv(char* sendbuf, long long sendsize, char* recvbuf, long long recvsize, int path);
int MPW_Finalize();
