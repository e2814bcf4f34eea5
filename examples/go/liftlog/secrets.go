package liftlog

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	secretBytesMin, secretBytesMax, secretsMax = 32, 64, 4
	secretVariable                             = "LIFTLOG_CLIENT_SECRET_FILE"
)

// Access is how a client gets in: the cluster's name, what it proves, and where it has that from, in words.
type Access struct {
	Cluster  string
	Secrets  [][]byte
	Source   string
	Versions Versions
	TLS      *tls.Config // nil: without
}

// NewAccess finds the clients' secret of a cluster: in path, else in the file that the environment names, else in
// the user's own file. "none" stands for no secret. ca is a file too: nodes that show certificates of this CA are
// called over TLS.
func NewAccess(cluster, path, ca string) (access Access, err error) {
	access = Access{Cluster: cluster, Secrets: [][]byte{make([]byte, 32)}, Source: "no secret", Versions: Spoken}
	if len(cluster) < 1 || len(cluster) > 64 {
		return access, fmt.Errorf("-cluster %q: a cluster's name has 1 to 64 characters", cluster)
	}
	if access.TLS, err = readTLS(ca); err != nil {
		return access, err
	}
	if path == "" {
		path = os.Getenv(secretVariable)
	}
	if path == "" {
		base := os.Getenv("XDG_CONFIG_HOME")
		if base == "" {
			base = filepath.Join(os.Getenv("HOME"), ".config")
		}
		own := filepath.Join(base, "liftlog", cluster+".client-secret")
		if _, err := os.Stat(own); err != nil {
			return access, nil
		}
		path = own
	}
	if path == "none" {
		return access, nil
	}
	secrets, err := readSecrets(path)
	access.Secrets, access.Source = secrets, "the secret in "+path
	return access, err
}

func readSecrets(path string) ([][]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the clients' secret cannot be read: %w", err)
	}
	var secrets [][]byte
	for number, line := range strings.Split(string(content), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		secret, err := hex.DecodeString(line)
		if err != nil {
			secret, err = base64.StdEncoding.DecodeString(line)
		}
		if err != nil || len(secret) < secretBytesMin || len(secret) > secretBytesMax {
			return nil, fmt.Errorf("line %d of %s is no secret of %d to %d bytes in hexadecimal digits or base64",
				number+1, path, secretBytesMin, secretBytesMax)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) < 1 || len(secrets) > secretsMax {
		return nil, fmt.Errorf("%s holds %d secrets; it should be 1 to %d", path, len(secrets), secretsMax)
	}
	return secrets, nil
}
