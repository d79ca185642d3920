package script

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// validate looks for the answer to a challenge, as a CA does.
func (a acme) validate(v acmetest.Validation) acmetest.Verdict {
	look := map[string]func(acmetest.Validation) error{
		rfc8555.ChallengeHTTP01: a.fetch, rfc8555.ChallengeDNS01: a.lookUp, rfc8555.ChallengeTLSALPN01: a.shakeHands,
	}[v.Type]
	if err := look(v); err != nil {
		return acmetest.Verdict{Problem: &rfc8555.Problem{Type: rfc8555.Namespace + rfc8555.ProblemUnauthorized, Detail: err.Error()}}
	}
	return acmetest.Verdict{}
}

// fetch is the validation of HTTP-01 (RFC 8555 section 8.3).
func (a acme) fetch(v acmetest.Validation) error {
	url := fmt.Sprintf("http://127.0.0.1:%s/.well-known/acme-challenge/%s", a.httpPort, v.Token)
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Host = v.Identifier.Value
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && string(body) != v.KeyAuthorization {
		err = fmt.Errorf("the answer is %q", body)
	}
	return err
}

// lookUp is the validation of DNS-01 (RFC 8555 section 8.4).
func (a acme) lookUp(v acmetest.Validation) error {
	sum := sha256.Sum256([]byte(v.KeyAuthorization))
	want, name := base64.RawURLEncoding.EncodeToString(sum[:]), "_acme-challenge."+v.Identifier.Value+"."
	if got := a.names.TXT(name); !slices.Contains(got, want) {
		return fmt.Errorf("the TXT records of %s are %q", name, got)
	}
	return nil
}

// shakeHands is the validation of TLS-ALPN-01 (RFC 8737 section 3).
func (a acme) shakeHands(v acmetest.Validation) error {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{
		NextProtos: []string{"acme-tls/1"}, ServerName: v.Identifier.Value, InsecureSkipVerify: true, // self-signed, as it has to be
	}}
	conn, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%s", a.tlsPort))
	if err != nil {
		return err
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	if state.NegotiatedProtocol != "acme-tls/1" {
		return fmt.Errorf("the protocol is %q", state.NegotiatedProtocol)
	}
	return checkTLSALPN(state.PeerCertificates[0], v)
}

func checkTLSALPN(cert *x509.Certificate, v acmetest.Validation) error {
	if len(cert.DNSNames) != 1 || cert.DNSNames[0] != v.Identifier.Value {
		return fmt.Errorf("the certificate is for %q", cert.DNSNames)
	}
	sum := sha256.Sum256([]byte(v.KeyAuthorization))
	want, err := asn1.Marshal(sum[:])
	if err != nil {
		return err
	}
	for _, e := range cert.Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) && e.Critical && bytes.Equal(e.Value, want) {
			return nil
		}
	}
	return errors.New("the certificate does not have the key authorization")
}
