package vault

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The keys of Secrets for which the spec names none.
const (
	keyToken = "token"
	keyCA    = "ca.crt"
	keyCert  = "tls.crt"
	keyKey   = "tls.key"
)

// material is the content of the objects that an issuer references, read for one attempt.
type material struct {
	connection connection
	login      login
	// versions are the versions of all Secrets that were read.
	versions string
}

// reader reads the Secrets of an issuer, each once.
type reader struct {
	access Access
	owner  string // their namespace
	read   map[string]Secret
	order  []string
}

func (r *reader) secret(ctx context.Context, name string) (Secret, error) {
	if known, ok := r.read[name]; ok {
		return known, nil
	}
	found, err := r.access.Secret(ctx, name)
	if err != nil {
		return Secret{}, err
	}
	r.read[name] = found
	r.order = append(r.order, name)
	return found, nil
}

func (r *reader) versions() string {
	var all strings.Builder
	for _, name := range r.order {
		fmt.Fprintf(&all, "%s=%s,", name, r.read[name].Version)
	}
	return all.String()
}

// value returns a key of a Secret without spaces around it, for logins.
func (r *reader) value(ctx context.Context, ref SecretKey, standard string) (credential, error) {
	secret, err := r.secret(ctx, ref.Name)
	if err != nil {
		return "", err
	}
	key := ref.Key
	if key == "" {
		key = standard
	}
	value := strings.TrimSpace(string(secret.Data[key]))
	if value == "" {
		return "", fmt.Errorf("no data for %q in secret '%s/%s'", key, r.owner, ref.Name)
	}
	return credential(value), nil
}

// gather reads all that an issuer refers to. Its errors are *InitError around
// *accessError: no call was made.
func (p *Pool) gather(ctx context.Context, i Issuer, access Access) (material, error) {
	r := &reader{access: access, owner: i.SecretNamespace, read: map[string]Secret{}}
	m := material{connection: connection{
		owner: i.SecretNamespace, server: i.Server, serverName: i.ServerName,
		guard: p.settings.guard(i.Loopback),
	}}
	var err error
	if m.connection.bundle, err = r.bundle(ctx, i); err != nil {
		return m, failedInit(fmt.Errorf("failed to load vault CA bundle: %w", err))
	}
	if m.connection.pairs, err = r.clientCertificate(ctx, i); err != nil {
		return m, failedInit(fmt.Errorf("failed to load vault client certificate: %w", err))
	}
	if m.login, err = p.newLogin(ctx, r, i, access); err != nil {
		return m, failedInit(err)
	}
	m.versions = r.versions()
	return m, nil
}

func failedInit(err error) error { return &InitError{&accessError{err}} }

// bundle returns the CAs of the server. That their Secret is missing is shown as
// text only: clients of cert-manager.io expect another outcome than for the
// Secrets of logins.
func (r *reader) bundle(ctx context.Context, i Issuer) ([]byte, error) {
	if len(i.CABundle) > 0 || i.CABundleRef == nil {
		return i.CABundle, nil
	}
	secret, err := r.secret(ctx, i.CABundleRef.Name)
	if err != nil {
		return nil, fmt.Errorf("could not access secret '%s/%s': %v", r.owner, i.CABundleRef.Name, err)
	}
	key := i.CABundleRef.Key
	if key == "" {
		key = keyCA
	}
	data := secret.Data[key]
	if len(data) == 0 {
		return nil, fmt.Errorf("no data for %q in secret '%s/%s'", key, r.owner, i.CABundleRef.Name)
	}
	return data, nil
}

// clientCertificate returns the client certificate of all connections.
func (r *reader) clientCertificate(ctx context.Context, i Issuer) ([]pair, error) {
	if i.ClientCertRef == nil || i.ClientKeyRef == nil {
		return nil, nil
	}
	certificate, err := r.file(ctx, *i.ClientCertRef, keyCert)
	if err != nil {
		return nil, err
	}
	key, err := r.file(ctx, *i.ClientKeyRef, keyKey)
	if err != nil {
		return nil, err
	}
	both := pair{certificate, key}
	if _, err := (connection{pairs: []pair{both}}).tlsConfig(); err != nil {
		return nil, fmt.Errorf("could not parse the TLS certificate from Secrets '%s/%s'(cert) and '%s/%s'(key): %w",
			r.owner, i.ClientCertRef.Name, r.owner, i.ClientKeyRef.Name, errors.Unwrap(err))
	}
	return []pair{both}, nil
}

func (r *reader) file(ctx context.Context, ref SecretKey, standard string) ([]byte, error) {
	secret, err := r.secret(ctx, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("could not access Secret '%s/%s': %v", r.owner, ref.Name, err)
	}
	key := ref.Key
	if key == "" {
		key = standard
	}
	if len(secret.Data[key]) == 0 {
		return nil, fmt.Errorf("no data for %q in Secret '%s/%s'", key, r.owner, ref.Name)
	}
	return secret.Data[key], nil
}
