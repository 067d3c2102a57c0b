package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"etl/internal/testservice"
)

// User and Password are the one account of the SASL listeners, for PLAIN,
// SCRAM-SHA-256 and SCRAM-SHA-512 alike.
const (
	User     = "alice"
	Password = "alice-secret"
)

// Security is what a client of the secured listeners needs.
type Security struct {
	TLSAddr     string // TLS; a client certificate is asked for and may be left out
	SASLAddr    string // SASL without TLS
	SASLTLSAddr string // SASL inside TLS
	CAPEM       []byte // signs the broker's and the client's certificate
	CertPEM     []byte // a client certificate, principal User:CN=client
	KeyPEM      []byte

	ports             []int
	brokerCertificate []byte
	brokerKey         []byte
}

// TLSConfig trusts the broker and shows the client certificate.
func (s *Security) TLSConfig() (*tls.Config, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CAPEM)
	cert, err := tls.X509KeyPair(s.CertPEM, s.KeyPEM)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, err
}

func newSecurity(ports []int) (*Security, error) {
	s := &Security{
		TLSAddr: testservice.Loopback(ports[0]), SASLAddr: testservice.Loopback(ports[1]), SASLTLSAddr: testservice.Loopback(ports[2]),
		ports: ports,
	}
	ca, err := newCA()
	if err != nil {
		return nil, fmt.Errorf("certificates of the test broker: %w", err)
	}
	s.CAPEM = ca.pem
	if s.brokerCertificate, s.brokerKey, err = ca.issue("broker"); err != nil {
		return nil, err
	}
	s.CertPEM, s.KeyPEM, err = ca.issue("client")
	return s, err
}

func (s *Security) listeners() []listener {
	return []listener{
		{"TLS", "SSL", s.ports[0], s.TLSAddr},
		{"SASL", "SASL_PLAINTEXT", s.ports[1], s.SASLAddr},
		{"SASLTLS", "SASL_SSL", s.ports[2], s.SASLTLSAddr},
	}
}

// addTo adds the broker's side. Key and certificates go into the settings
// themselves, so that process and container need no further file.
func (s *Security) addTo(props map[string]string) {
	props["ssl.keystore.type"] = "PEM"
	props["ssl.keystore.certificate.chain"] = string(s.brokerCertificate)
	props["ssl.keystore.key"] = string(s.brokerKey)
	props["ssl.truststore.type"] = "PEM"
	props["ssl.truststore.certificates"] = string(s.CAPEM)
	props["ssl.client.auth"] = "requested"
	props["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
	plain := fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q;", User, Password)
	scram := "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	for _, name := range []string{"sasl", "sasltls"} {
		prefix := "listener.name." + name
		props[prefix+".plain.sasl.jaas.config"] = plain
		props[prefix+".scram-sha-256.sasl.jaas.config"] = scram
		props[prefix+".scram-sha-512.sasl.jaas.config"] = scram
	}
}

// authority signs the certificates of one broker and its clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newCA() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("etl test CA")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, pem: block("CERTIFICATE", der)}, err
}

// issue makes a certificate and its key. PKCS#8, the only form Kafka reads.
func (a *authority) issue(name string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames, t.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8), err
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
