package secret

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
)

// storeKeys are the keys in data of keystores.
var storeKeys = []string{cmv1.JKSSecretKey, cmv1.JKSTruststoreKey, cmv1.PKCS12SecretKey, cmv1.PKCS12TruststoreKey}

// wantsJKS and wantsPKCS12 return nil if no such keystore is requested.
func wantsJKS(spec *cmv1.CertificateSpec) *cmv1.JKSKeystore {
	if spec.Keystores == nil || spec.Keystores.JKS == nil || !spec.Keystores.JKS.Create {
		return nil
	}
	return spec.Keystores.JKS
}

func wantsPKCS12(spec *cmv1.CertificateSpec) *cmv1.PKCS12Keystore {
	if spec.Keystores == nil || spec.Keystores.PKCS12 == nil || !spec.Keystores.PKCS12.Create {
		return nil
	}
	return spec.Keystores.PKCS12
}

// wantedStores returns the keystores that the Secret should have.
func (c Content) wantedStores() map[string]bool {
	wanted := make(map[string]bool)
	if wantsJKS(&c.Certificate.Spec) != nil {
		wanted[cmv1.JKSSecretKey], wanted[cmv1.JKSTruststoreKey] = true, len(c.CA) > 0
	}
	if wantsPKCS12(&c.Certificate.Spec) != nil {
		wanted[cmv1.PKCS12SecretKey], wanted[cmv1.PKCS12TruststoreKey] = true, len(c.CA) > 0
	}
	return wanted
}

// keystores returns the keystores. Their bytes differ in each call, because
// they are encrypted.
func (c Content) keystores(o Options) (map[string][]byte, error) {
	spec := &c.Certificate.Spec
	if wantsJKS(spec) == nil && wantsPKCS12(spec) == nil {
		return nil, nil
	}
	pair, err := c.pair()
	if err != nil {
		return nil, err
	}
	stores := make(map[string][]byte)
	if err := addJKS(stores, wantsJKS(spec), pair, o); err != nil {
		return nil, err
	}
	return stores, addPKCS12(stores, wantsPKCS12(spec), pair, o)
}

func (c Content) pair() (keystorefile.Pair, error) {
	key, err := pki.ParsePrivateKey(c.Key)
	if err != nil {
		return keystorefile.Pair{}, fmt.Errorf("reading the private key: %w", err)
	}
	chain, err := pki.ParseBundle(c.Chain)
	if err != nil {
		return keystorefile.Pair{}, fmt.Errorf("reading the certificate: %w", err)
	}
	pair := keystorefile.Pair{Key: key, Chain: chain}
	if len(c.CA) == 0 {
		return pair, nil
	}
	if pair.CAs, err = pki.ParseBundle(c.CA); err != nil {
		return keystorefile.Pair{}, fmt.Errorf("reading the CA: %w", err)
	}
	return pair, nil
}

func addJKS(stores map[string][]byte, jks *cmv1.JKSKeystore, pair keystorefile.Pair, o Options) (err error) {
	if jks == nil {
		return nil
	}
	if stores[cmv1.JKSSecretKey], err = keystorefile.JKS(pair, aliasOf(jks), o.Passwords.JKS, o.Now); err != nil || len(pair.CAs) == 0 {
		return err
	}
	stores[cmv1.JKSTruststoreKey], err = keystorefile.JKSTrust(pair, o.Passwords.JKS, o.Now)
	return err
}

func aliasOf(jks *cmv1.JKSKeystore) string {
	if jks.Alias != nil && *jks.Alias != "" {
		return *jks.Alias
	}
	return keystorefile.DefaultAlias
}

func addPKCS12(stores map[string][]byte, p12 *cmv1.PKCS12Keystore, pair keystorefile.Pair, o Options) (err error) {
	if p12 == nil {
		return nil
	}
	if stores[cmv1.PKCS12SecretKey], err = keystorefile.PKCS12(pair, p12.Profile, o.Passwords.PKCS12); err != nil || len(pair.CAs) == 0 {
		return err
	}
	stores[cmv1.PKCS12TruststoreKey], err = keystorefile.PKCS12Trust(pair, p12.Profile, o.Passwords.PKCS12)
	return err
}

// storesOutdated reports whether a keystore differs from the one that would be written
// now. Without its password a keystore cannot be compared.
func (c Content) storesOutdated(s *corev1.Secret, passwords Passwords) (bool, error) {
	jks, p12 := wantsJKS(&c.Certificate.Spec), wantsPKCS12(&c.Certificate.Spec)
	if jks == nil && p12 == nil {
		return false, nil
	}
	pair, err := c.pair()
	if err != nil {
		return false, err
	}
	return jks != nil && passwords.JKS != "" && !hasJKS(s, jks, pair, passwords.JKS) ||
		p12 != nil && passwords.PKCS12 != "" && !hasPKCS12(s, p12, pair, passwords.PKCS12), nil
}

func hasJKS(s *corev1.Secret, jks *cmv1.JKSKeystore, pair keystorefile.Pair, password string) bool {
	return keystorefile.HasJKS(s.Data[cmv1.JKSSecretKey], pair, aliasOf(jks), password) &&
		(len(pair.CAs) == 0 || keystorefile.HasJKSTrust(s.Data[cmv1.JKSTruststoreKey], pair, password))
}

func hasPKCS12(s *corev1.Secret, p12 *cmv1.PKCS12Keystore, pair keystorefile.Pair, password string) bool {
	return keystorefile.HasPKCS12(s.Data[cmv1.PKCS12SecretKey], pair, p12.Profile, password) &&
		(len(pair.CAs) == 0 || keystorefile.HasPKCS12Trust(s.Data[cmv1.PKCS12TruststoreKey], pair, p12.Profile, password))
}

// PasswordRef is the source of a password: Value, or the entry Key of Secret.
type PasswordRef struct{ Value, Secret, Key string }

// PasswordRefs returns the sources of the passwords for Options; nil where none
// is needed.
func PasswordRefs(spec *cmv1.CertificateSpec) (jks, pkcs12 *PasswordRef) {
	if store := wantsJKS(spec); store != nil {
		jks = &PasswordRef{Value: deref(store.Password), Secret: store.PasswordSecretRef.Name, Key: store.PasswordSecretRef.Key}
	}
	if store := wantsPKCS12(spec); store != nil {
		pkcs12 = &PasswordRef{Value: deref(store.Password), Secret: store.PasswordSecretRef.Name, Key: store.PasswordSecretRef.Key}
	}
	return jks, pkcs12
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
