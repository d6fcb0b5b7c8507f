// Ping-pong of bare bytes over TCP on the loopback device, as it is or in TLS 1.3 by OpenSSL: tls_ends plain|tls BYTES COUNT REPORT
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void require(bool holds, const char* what) {
    if (holds) return;
    std::perror(what);
    std::exit(1);
}

// An end of the connection.
class End {
  public:
    End(int socket, SSL_CTX* context, bool accepts) : socket_(socket) {
        const int on = 1;
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (context == nullptr) return;
        ssl_ = SSL_new(context);
        SSL_set_fd(ssl_, socket);
        require((accepts ? SSL_accept(ssl_) : SSL_connect(ssl_)) == 1, "TLS");
        require(SSL_version(ssl_) == TLS1_3_VERSION, "TLS 1.3");
    }

    void send(const std::vector<char>& bytes) {
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t left = bytes.size() - at;
            const auto count = ssl_ != nullptr ? SSL_write(ssl_, bytes.data() + at, static_cast<int>(left))
                                               : write(socket_, bytes.data() + at, left);
            require(count > 0, "write");
            at += static_cast<std::size_t>(count);
        }
    }

    void receive(std::vector<char>& bytes) {
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t left = bytes.size() - at;
            const auto count = ssl_ != nullptr ? SSL_read(ssl_, bytes.data() + at, static_cast<int>(left))
                                               : read(socket_, bytes.data() + at, left);
            require(count > 0, "read");
            at += static_cast<std::size_t>(count);
        }
    }

  private:
    int socket_;
    SSL* ssl_ = nullptr;
};

// A context with a certificate that it signs itself, and the cipher that xMML uses.
SSL_CTX* context() {
    SSL_CTX* context = SSL_CTX_new(TLS_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    require(SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") == 1, "cipher");
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    require(SSL_CTX_use_certificate(context, certificate) == 1, "certificate");
    require(SSL_CTX_use_PrivateKey(context, key) == 1, "key");
    return context;
}

}  // namespace

int main(int, char** words) {
    const std::size_t bytes = std::strtoull(words[2], nullptr, 10), count = std::strtoull(words[3], nullptr, 10);
    SSL_CTX* const tls = std::string(words[1]) == "tls" ? context() : nullptr;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    require(bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0, "bind");
    require(listen(listener, 1) == 0, "listen");
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    std::thread pong([&] {
        End end(accept(listener, nullptr, nullptr), tls, true);
        std::vector<char> message(bytes);
        for (std::size_t turn = 0; turn < count; ++turn) {
            end.receive(message);
            end.send(message);
        }
    });
    const int dialler = socket(AF_INET, SOCK_STREAM, 0);
    require(connect(dialler, reinterpret_cast<sockaddr*>(&address), length) == 0, "connect");
    End end(dialler, tls, false);
    std::vector<char> message(bytes, 1);
    std::vector<double> trips(count);
    const auto begin = Clock::now();
    for (auto& trip : trips) {
        const auto sent = Clock::now();
        end.send(message);
        end.receive(message);
        trip = std::chrono::duration<double>(Clock::now() - sent).count();
    }
    const double total = std::chrono::duration<double>(Clock::now() - begin).count();
    pong.join();
    std::sort(trips.begin(), trips.end());
    std::ofstream(words[4]) << "{\"median_s\": " << trips[count / 2] << ", \"p99_s\": " << trips[count * 99 / 100]
                            << ", \"longest_s\": " << trips.back() << ", \"total_s\": " << total << "}\n";
    return 0;
}
