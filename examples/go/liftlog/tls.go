package liftlog

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	caVariable                = "LIFTLOG_CLIENT_TLS_CA"
	certVariable, keyVariable = "LIFTLOG_CLIENT_TLS_CERT", "LIFTLOG_CLIENT_TLS_KEY"
)

// readTLS is how nodes are called by files of certificates: the CA in path, else in the file that the environment
// names, and what the environment says is to be shown; nil without a CA, and for "none".
func readTLS(path string) (*tls.Config, error) {
	if path == "" {
		path = os.Getenv(caVariable)
	}
	if path == "" || path == "none" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the CA's certificate cannot be read: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s holds no certificate of a CA, in PEM", path)
	}
	if cert := os.Getenv(certVariable); cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, os.Getenv(keyVariable))
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certVariable, keyVariable, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// secured is the connection over TLS, and what the handshake that follows is bound to: the node's certificate.
func secured(socket net.Conn, address string, config *tls.Config) (net.Conn, []byte, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	config = config.Clone()
	config.ServerName = host
	connection := tls.Client(socket, config)
	if err = connection.Handshake(); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it hung up when TLS began: it speaks none there, or stops")
		}
		return nil, nil, err
	}
	bound := sha256.Sum256(connection.ConnectionState().PeerCertificates[0].Raw)
	return connection, bound[:], nil
}

// connected is a connection to a node's port, with a deadline for all that is said before the first request.
func connected(address string, access Access) (net.Conn, []byte, error) {
	socket, err := net.DialTimeout("tcp", address, ConnectTimeout)
	if err != nil {
		return nil, nil, err
	}
	socket.SetDeadline(time.Now().Add(ConnectTimeout))
	if access.TLS == nil {
		return socket, nil, nil
	}
	connection, bound, err := secured(socket, address, access.TLS)
	if err != nil {
		socket.Close()
		return nil, nil, err
	}
	return connection, bound, nil
}
