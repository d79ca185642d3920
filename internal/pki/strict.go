package pki

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The limits for a request that an approver has to judge.
const (
	maxRequestNames      = 1000
	maxRequestAttributes = 256
)

// Strict returns an error if the request contains more than a Request shows, or
// if other programs may read it differently. A signer may be more lenient about
// parts that it leaves out anyway; an approver of requests for other signers
// must not be.
func (r *Request) Strict() error {
	switch names := len(r.DNSNames) + len(r.EmailAddresses) + len(r.IPAddresses) + len(r.URIs) + len(r.OtherNames.Value); {
	case names > maxRequestNames:
		return fmt.Errorf("the request has %d alternative names, more than %d", names, maxRequestNames)
	case len(r.Subject.Names) > maxRequestAttributes:
		return fmt.Errorf("the request's subject has %d attributes, more than %d", len(r.Subject.Names), maxRequestAttributes)
	}
	if err := r.strictStructure(); err != nil {
		return err
	}
	for _, extension := range []struct {
		name string
		err  error
	}{
		{"subject alternative name", r.OtherNames.Err}, {"basic constraints", r.CA.Err},
		{"key usage", r.KeyUsage.Err}, {"extended key usage", r.ExtKeyUsage.Err},
	} {
		if extension.err != nil {
			return fmt.Errorf("the request's extension %s: %w", extension.name, extension.err)
		}
	}
	return r.strictTexts()
}

// StrictPEM returns an error if data has more than one PEM block. A broken one
// counts: programs disagree about which they skip.
func StrictPEM(data []byte) error {
	if bytes.Count(data, []byte("-----BEGIN")) > 1 {
		return errors.New("there is more than one PEM block: send only the certificate request")
	}
	return nil
}

// strictTexts: programs disagree about where a text with NUL ends.
func (r *Request) strictTexts() error {
	for _, attribute := range r.Subject.Names {
		text, isText := attribute.Value.(string)
		switch {
		case !isText:
			return fmt.Errorf("the request's subject has an attribute %v that is not a text", attribute.Type)
		case strings.Contains(text, "\x00"):
			return fmt.Errorf("the request's subject has an attribute %v with NUL", attribute.Type)
		}
	}
	texts := append(append([]string{}, r.DNSNames...), r.EmailAddresses...)
	for _, uri := range r.URIs {
		texts = append(texts, uri.String())
	}
	for _, other := range r.OtherNames.Value {
		texts = append(texts, other.Value)
	}
	for _, text := range texts {
		if strings.Contains(text, "\x00") {
			return fmt.Errorf("the request's alternative name %q has NUL", text)
		}
	}
	return nil
}
