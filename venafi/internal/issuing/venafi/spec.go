package venafi

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// problemOf describes the problem of a spec; empty if it has none.
func problemOf(spec *cmv1.VenafiIssuer) string {
	switch {
	case spec == nil || spec.TPP == nil && spec.Cloud == nil && spec.NGTS == nil:
		return "neither Venafi Cloud, TPP, or NGTS configuration found"
	case spec.Zone == "":
		return "spec.venafi.zone is empty"
	case spec.TPP != nil && spec.TPP.CredentialsRef.Name == "":
		return "spec.venafi.tpp.credentialsRef.name is empty"
	case spec.TPP == nil && spec.Cloud != nil && spec.Cloud.APITokenSecretRef.Name == "":
		return "spec.venafi.cloud.apiTokenSecretRef.name is empty"
	}
	return ""
}

// issuerOf returns the settings in the spec of an issuer, which must have no problem.
func (b *backend) issuerOf(of cmv1.GenericIssuer) venafi.Issuer {
	spec := of.GetSpec().Venafi
	_, cluster := of.(*cmv1.ClusterIssuer)
	i := venafi.Issuer{
		UID: string(of.GetUID()), Generation: of.GetGeneration(), Zone: spec.Zone, Loopback: cluster,
		SecretNamespace: certmanager.SecretNamespace(of, b.ClusterResources),
	}
	switch {
	case spec.TPP != nil:
		i.Product, i.URL, i.Credentials, i.CABundle = venafi.TPP, spec.TPP.URL, spec.TPP.CredentialsRef.Name, spec.TPP.CABundle
		if ref := spec.TPP.CABundleSecretRef; ref != nil {
			i.CABundleRef = &venafi.SecretKey{Name: ref.Name, Key: ref.Key}
		}
	case spec.Cloud != nil:
		i.Product, i.URL = venafi.Cloud, spec.Cloud.URL
		i.Credentials, i.APIKey = spec.Cloud.APITokenSecretRef.Name, spec.Cloud.APITokenSecretRef.Key
	default:
		i.Product, i.URL, i.Credentials = venafi.NGTS, spec.NGTS.URL, spec.NGTS.CredentialsRef.Name
		i.TokenURL, i.Tenant = spec.NGTS.TokenEndpoint, spec.NGTS.TSGID
	}
	return i
}

// secretsOf returns the names of all Secrets of an issuer; some may be empty.
func secretsOf(spec *cmv1.VenafiIssuer) []string {
	var names []string
	if tpp := spec.TPP; tpp != nil {
		names = append(names, tpp.CredentialsRef.Name)
		if tpp.CABundleSecretRef != nil {
			names = append(names, tpp.CABundleSecretRef.Name)
		}
	}
	if spec.Cloud != nil {
		names = append(names, spec.Cloud.APITokenSecretRef.Name)
	}
	if spec.NGTS != nil {
		names = append(names, spec.NGTS.CredentialsRef.Name)
	}
	return names
}

// accessOf returns the access to the Secrets of an issuer, as the controller
// itself.
func (b *backend) accessOf(i venafi.Issuer) venafi.Access {
	return func(ctx context.Context, name string) (venafi.Secret, error) {
		secret := &corev1.Secret{}
		if err := b.Client.Get(ctx, types.NamespacedName{Namespace: i.SecretNamespace, Name: name}, secret); err != nil {
			return venafi.Secret{}, err
		}
		return venafi.Secret{Data: secret.Data, Version: string(secret.UID) + "/" + secret.ResourceVersion}, nil
	}
}
