package sign

import (
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/keystore"
)

// shortNames are Kubernetes' names for its signers in flags and controllers, in
// the order in which it evaluates the flags.
var shortNames = []struct{ signerName, short string }{
	{certificatesv1.KubeletServingSignerName, "kubelet-serving"},
	{certificatesv1.KubeAPIServerClientKubeletSignerName, "kubelet-client"},
	{certificatesv1.KubeAPIServerClientSignerName, "kube-apiserver-client"},
	{signer.LegacyUnknown, "legacy-unknown"},
}

func shortName(signerName string) string {
	for _, name := range shortNames {
		if name.signerName == signerName {
			return name.short
		}
	}
	return signerName
}

// CAOf returns the CA that is configured for a signer, and its field. Without a
// configured CA, it returns zero settings. As in Kubernetes, the CA for all
// signers is not used for any once a single signer has its own.
func (s Settings) CAOf(signerName string) (ca keystore.Settings, field string) {
	if !s.anySpecific() {
		return s.CA, "signing.ca"
	}
	if i := s.index(signerName); i >= 0 {
		return s.Signers[i].CA, fmt.Sprintf("signing.signers[%d].ca", i)
	}
	return keystore.Settings{}, ""
}

func (s Settings) anySpecific() bool {
	for _, own := range s.Signers {
		if !own.CA.IsZero() {
			return true
		}
	}
	return false
}

// checkCAs checks the choice of CAs by Kubernetes' rules, with its error
// messages. Unlike in Kubernetes, half of a CA is always an error: it is never
// intended to sign nothing.
func (s Settings) checkCAs() error {
	for _, name := range shortNames {
		if i := s.index(name.signerName); i >= 0 {
			if err := checkCA(s.Signers[i].CA, fmt.Sprintf("signing.signers[%d].ca", i), "cluster-signing-"+name.short); err != nil {
				return err
			}
		}
	}
	if !s.CA.IsZero() && s.anySpecific() {
		return errors.New("signing.ca: cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time: " +
			"signing.ca is for signers without their own CA, but a signer under signing.signers sets its own CA")
	}
	return checkCA(s.CA, "signing.ca", "cluster-signing")
}

func checkCA(ca keystore.Settings, field, flags string) error {
	hasKey := ca.KeyFile != "" || ca.Key != ""
	switch {
	case ca.CertFile != "" && !hasKey:
		return fmt.Errorf("%s: %q: cannot specify cert without key", field, flags)
	case ca.CertFile == "" && hasKey:
		return fmt.Errorf("%s: %q: cannot specify key without cert", field, flags)
	}
	return ca.Validate(field)
}
