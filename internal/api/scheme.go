// Package api combines the API groups that the server serves into one scheme.
package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/certplane/certplane/internal/api/admissionregistration"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/coordination"
	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/api/rbac"
	"github.com/certplane/certplane/internal/api/reviews"
)

// Scheme has every kind and version that the server can read, write and
// convert. It must not be modified.
var Scheme = newScheme()

// ParameterCodec decodes the query parameters of requests, such as list and
// patch options.
var ParameterCodec = runtime.NewParameterCodec(Scheme)

// NewCodecs returns the wire formats of the server: JSON, YAML and protobuf
// and, with withCBOR, CBOR (KEP-4222). Lists are written item by item, without
// a copy of the whole in memory (KEP-5116).
func NewCodecs(withCBOR bool) serializer.CodecFactory {
	options := []serializer.CodecFactoryOptionsMutator{
		serializer.WithStreamingCollectionEncodingToJSON(),
		serializer.WithStreamingCollectionEncodingToProtobuf(),
	}
	if withCBOR {
		options = append(options, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	return serializer.NewCodecFactory(Scheme, options...)
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme,
		certificates.AddToScheme,
		coordination.AddToScheme,
		core.AddToScheme,
		events.AddToScheme,
		inventory.AddToScheme,
		rbac.AddToScheme,
		reviews.AddToScheme,
		addMeta,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("building the scheme: %v", err))
		}
	}
	return scheme
}

// addMeta adds the kinds that every group shares: options, Status, discovery.
func addMeta(scheme *runtime.Scheme) error {
	unversioned := schema.GroupVersion{Group: "", Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{},
		&metav1.APIVersions{},
		&metav1.APIGroupList{},
		&metav1.APIGroup{},
		&metav1.APIResourceList{},
	)
	return nil
}
