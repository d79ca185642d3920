package vault

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// forbiddenPause is how long to wait before a call that was forbidden is
// repeated: the members of a cluster learn of a new token a little later.
const forbiddenPause = time.Second

// Order is a certificate that a server is to issue.
type Order struct {
	// ID identifies the request.
	ID string
	// PEM is the PKCS#10 request as it was sent, CSR its content.
	PEM []byte
	CSR *x509.CertificateRequest
	// Duration is the requested lifetime.
	Duration time.Duration
}

// Bundle is the answer of a server.
type Bundle struct {
	Leaf *x509.Certificate
	// Issuers are the CAs in the order of the answer, perhaps more than a chain.
	Issuers []*x509.Certificate
	// Issuing is the CA that issued the leaf, according to the server; nil if the server
	// does not name it.
	Issuing *x509.Certificate
	// Path is where the certificate is from, for texts. Prefixed is set if the spec
	// has it with /v1/ in front.
	Path     string
	Prefixed bool
}

// parameters are the body of the call.
func (o Order) parameters() map[string]string {
	var ips, uris []string
	for _, ip := range o.CSR.IPAddresses {
		ips = append(ips, ip.String())
	}
	for _, uri := range o.CSR.URIs {
		uris = append(uris, uri.String())
	}
	return map[string]string{
		"csr":                  string(o.PEM),
		"common_name":          o.CSR.Subject.CommonName,
		"alt_names":            strings.Join(o.CSR.DNSNames, ","),
		"ip_sans":              strings.Join(ips, ","),
		"uri_sans":             strings.Join(uris, ","),
		"ttl":                  o.Duration.String(),
		"exclude_cn_from_sans": "true",
	}
}

// sign logs in if necessary, and signs.
func (p *Pool) sign(ctx context.Context, i Issuer, access Access, m material, s session, order Order) (*Bundle, error) {
	at, prefixed, err := signPath(i.Path)
	if err != nil {
		return nil, err
	}
	body, err := p.authorized(ctx, i, access, m, s, func(token credential) ([]byte, error) { return s.sign(ctx, at, token, order) })
	if err != nil {
		return nil, err
	}
	bundle, err := readBundle(body)
	if err != nil {
		return nil, err
	}
	bundle.Path, bundle.Prefixed = strings.TrimPrefix(at, "/v1/"), prefixed
	return bundle, nil
}

// authorized logs in if necessary, and makes a call. A call that is forbidden is repeated
// once, with a new token if the one that was refused is older than this attempt.
func (p *Pool) authorized(ctx context.Context, i Issuer, access Access, m material, s session, make func(credential) ([]byte, error)) ([]byte, error) {
	begin := p.clock.Now()
	g, err := p.token(ctx, i, m, s)
	if err != nil {
		return nil, initFailure(err)
	}
	body, err := make(g.token)
	if isForbidden(err) {
		if g, err = p.again(ctx, i, access, m, s, g, begin); err != nil {
			return nil, err
		}
		return make(g.token)
	}
	return body, err
}

// Revoke lets the server of an issuer revoke a certificate, by its serial number. That the
// certificate was revoked before, or has ended, is no error.
func (p *Pool) Revoke(ctx context.Context, i Issuer, access Access, serial *big.Int) error {
	at, err := revokePath(i.Path)
	if err != nil {
		return err
	}
	octets := strings.ReplaceAll(fmt.Sprintf("% x", serial.Bytes()), " ", ":")
	return p.with(ctx, i, access, octets, func(m material, s session) error {
		_, err := p.authorized(ctx, i, access, m, s, func(token credential) ([]byte, error) {
			return s.server.do(ctx, call{
				operation: opRevokeCertificate, method: http.MethodPost, path: at, namespace: s.namespace, token: token,
				body: map[string]string{"serial_number": octets},
			})
		})
		return err
	})
}

// again waits until a forbidden call may be repeated, and returns the token for it. Its
// errors are login errors.
func (p *Pool) again(ctx context.Context, i Issuer, access Access, m material, s session, refused granted, begin time.Time) (granted, error) {
	next := refused
	var err error
	switch {
	case refused.at.IsZero(): // the Secret can have changed in the meantime
		if m, err = p.gather(ctx, i, access); err == nil {
			next, err = p.token(ctx, i, m, s)
		}
	case refused.at.Before(begin):
		p.reject(i.UID, refused.token)
		next, err = p.token(ctx, i, m, s)
	}
	if err != nil {
		return granted{}, initFailure(err)
	}
	select {
	case <-ctx.Done():
		return granted{}, &connectionError{ctx.Err()}
	case <-p.clock.After(forbiddenPause):
		return next, nil
	}
}

func isForbidden(err error) bool {
	var answered *AnswerError
	return errors.As(err, &answered) && answered.Status == http.StatusForbidden
}

func (s session) sign(ctx context.Context, at string, token credential, order Order) ([]byte, error) {
	body, err := s.server.do(ctx, call{
		operation: opSign, method: http.MethodPost, path: at, namespace: s.namespace, token: token, body: order.parameters(),
	})
	switch {
	case errors.Is(err, errTooLarge):
		return nil, fmt.Errorf("failed to decode response returned by vault: %w", err)
	case err != nil:
		return nil, fmt.Errorf("failed to sign certificate by vault: %w", err)
	}
	return body, nil
}

// readBundle reads the answer to signing. It ignores a private key in the answer, which
// other paths than signing paths return.
func readBundle(body []byte) (*Bundle, error) {
	var answer struct {
		Data struct {
			Certificate string   `json:"certificate"`
			Issuing     string   `json:"issuing_ca"`
			Chain       []string `json:"ca_chain"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("failed to decode response returned by vault: %w", err)
	}
	leaf, err := firstCertificate(answer.Data.Certificate)
	if err != nil {
		return nil, fmt.Errorf("failed to decode response returned by vault: certificate: %w", err)
	}
	b := &Bundle{Leaf: leaf}
	if answer.Data.Issuing != "" {
		if b.Issuing, err = firstCertificate(answer.Data.Issuing); err != nil {
			return nil, fmt.Errorf("failed to decode response returned by vault: issuing_ca: %w", err)
		}
	}
	for n, one := range answer.Data.Chain {
		if n == maxBundle {
			return nil, fmt.Errorf("failed to parse certificate chain from vault: more than %d certificates", maxBundle)
		}
		ca, err := firstCertificate(one)
		if err != nil {
			return nil, fmt.Errorf("failed to decode response returned by vault: ca_chain: %w", err)
		}
		b.Issuers = append(b.Issuers, ca)
	}
	if len(b.Issuers) == 0 && b.Issuing != nil {
		b.Issuers = []*x509.Certificate{b.Issuing}
	}
	return b, nil
}

// maxBundle limits the certificates of an answer: no chain has that many.
const maxBundle = 20

func firstCertificate(text string) (*x509.Certificate, error) {
	blocks, err := pki.Blocks([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case len(blocks) == 0 || blocks[0].Type != pki.CertificateBlockType:
		return nil, errors.New("is not a certificate in PEM")
	}
	return x509.ParseCertificate(blocks[0].Bytes)
}

// health checks that the server can serve. A standby can: it forwards calls.
func (s *server) health(ctx context.Context) error {
	_, err := s.do(ctx, call{operation: opHealth, method: http.MethodGet, path: "/v1/sys/health"})
	var answered *AnswerError
	if !errors.As(err, &answered) {
		return err
	}
	switch answered.Status {
	case http.StatusTooManyRequests, 472, 473: // a standby, a secondary for disaster recovery, a performance standby
		return nil
	case http.StatusNotImplemented:
		return stateError("Vault is not initialized")
	case http.StatusServiceUnavailable:
		return stateError("Vault is sealed")
	}
	return fmt.Errorf("error calling Vault /v1/sys/health: %w", answered)
}
