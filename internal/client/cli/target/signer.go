package target

import (
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// ofKubernetes is the domain of Kubernetes' own signers.
const ofKubernetes = "kubernetes.io/"

// issuerDomains are domains that users mistake for domains of issuers, with the correct
// form of an issuer's name.
var issuerDomains = map[string]string{
	"issuer": issuerForm, "issuers": issuerForm, "issuer." + certmanager.Group: issuerForm, certmanager.Group: issuerForm,
	"clusterissuer": clusterIssuerForm, "clusterissuers": clusterIssuerForm, "clusterissuer." + certmanager.Group: clusterIssuerForm,
}

// Forms of the names of issuers.
const (
	issuerForm        = "issuers." + certmanager.Group + "/NAMESPACE.NAME"
	clusterIssuerForm = "clusterissuers." + certmanager.Group + "/NAME"
)

// SignerName returns the full name of a signer. The ready-made signer of server
// certificates has a short name; all other names are returned unchanged.
func SignerName(name string) string {
	if name == readymade.Server {
		return readymade.ServerSignerName
	}
	return name
}

// checkSigner returns an error for text that is not the name of a signer, with the
// correct form.
func checkSigner(name string) error {
	domain, _, found := strings.Cut(name, "/")
	sampled := sample(name)
	switch {
	case name == "":
		return errors.New("the name of the signer is empty")
	case name == AnySigner:
		return nil
	case !found && isOfKubernetes(name):
		return fmt.Errorf("%q is not the name of a signer: did you mean %s%s?", name, ofKubernetes, name)
	case !found:
		return fmt.Errorf("%q is not the name of a signer: want DOMAIN/NAME, such as example.com/web, %s or %s", name, issuerForm, clusterIssuerForm)
	case issuerDomains[domain] != "":
		return fmt.Errorf("%q is not the name of an issuer: want %s", name, issuerDomains[domain])
	case strings.Contains(sampled, "*"):
		return fmt.Errorf("%q is not the name of a signer: a star stands for names only in DOMAIN/*, here %s/*", name, domain)
	case certmanager.SignerForm(sampled) != "":
		return fmt.Errorf("%q is not the name of an issuer: want %s", name, certmanager.SignerForm(sampled))
	}
	if errs := certificates.ValidateSignerName(field.NewPath("signer"), sampled); len(errs) > 0 {
		return fmt.Errorf("%q is not the name of a signer: %s", name, errs[0].Detail)
	}
	return nil
}

// sample returns the name of a signer to check instead of DOMAIN/*.
func sample(name string) string {
	if domain, isAll := strings.CutSuffix(name, "/*"); isAll {
		return domain + "/a.a"
	}
	return name
}

func isOfKubernetes(name string) bool {
	switch ofKubernetes + name {
	case certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName:
		return true
	}
	return false
}
