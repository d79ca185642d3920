// Package certificates serves the API group certificates.k8s.io.
package certificates

import (
	"maps"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/apiserver/registry/certificates/clustertrustbundle"
	"github.com/certplane/certplane/internal/apiserver/registry/certificates/csr"
	"github.com/certplane/certplane/internal/apiserver/registry/certificates/podcertificaterequest"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the group.
type Options struct {
	// RESTOptions configures the store.
	RESTOptions generic.RESTOptionsGetter
	// ServeV1beta1 serves the deprecated versions of the kinds in addition to v1. v1beta1 of
	// CertificateSigningRequest has its own defaults and is more lenient.
	ServeV1beta1 bool
	// ServeV1alpha1 serves trust bundles in their first version.
	ServeV1alpha1 bool
	// CSRDuration lets clients request a certificate's duration (KEP-2784);
	// without it, create drops spec.expirationSeconds.
	CSRDuration bool
	// Now returns the time.
	Now func() time.Time
	// MaySign reports whether a user may answer PodCertificateRequests.
	MaySign podcertificaterequest.MaySign
}

// NewAPIGroup returns the group, ready for installation.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	endpoints, err := csr.New(csr.Config{
		RESTOptions: opts.RESTOptions,
		Typer:       api.Scheme,
		Durations:   opts.CSRDuration,
		Register:    legacyregistry.Register,
		Now:         opts.Now,
	})
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	bundles, err := clustertrustbundle.Kind(opts.Now).Open(opts.RESTOptions)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	podRequests, err := podcertificaterequest.New(podcertificaterequest.Config{
		RESTOptions: opts.RESTOptions, Typer: api.Scheme, MaySign: opts.MaySign, Now: opts.Now,
	})
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	resources := map[string]rest.Storage{
		"certificatesigningrequests":          endpoints.Main,
		"certificatesigningrequests/status":   endpoints.Status,
		"certificatesigningrequests/approval": endpoints.Approval,
		"podcertificaterequests":              podRequests.Main,
		"podcertificaterequests/status":       podRequests.Status,
	}
	maps.Copy(resources, bundles.Storage)

	group := kind.NewGroup(certificatesv1.GroupName)
	group.VersionedResourcesStorageMap[certificatesv1.SchemeGroupVersion.Version] = resources
	if opts.ServeV1beta1 {
		group.VersionedResourcesStorageMap[certificatesv1beta1.SchemeGroupVersion.Version] = resources
	}
	if opts.ServeV1alpha1 {
		group.VersionedResourcesStorageMap[certificatesv1alpha1.SchemeGroupVersion.Version] = bundles.Storage
	}
	return group, nil
}
