package requests

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/pki"
)

// Read returns the requests in the content of a file. Its errors begin with the
// name of the file.
func (o *Options) Read(file string, data []byte) ([]*Asked, error) {
	if isPEM(data) {
		asked, err := o.ofPEM(file, data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", title(file), err)
		}
		return []*Asked{asked}, nil
	}
	documents, err := manifest.Parse(file, data)
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s: has no objects", title(file))
	}
	var all []*Asked
	for i := range documents {
		asked, err := o.ofDocument(&documents[i])
		if err != nil {
			return nil, err
		}
		all = append(all, asked)
	}
	return all, nil
}

func title(file string) string {
	if file == manifest.Stdin {
		return "standard input"
	}
	return file
}

// isPEM reports whether data is PEM, possibly with text around it, and not an object that
// contains PEM.
func isPEM(data []byte) bool {
	block, _ := pem.Decode(data)
	return block != nil && !bytes.Contains(data, []byte("apiVersion")) || bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN "))
}

// empty returns an empty object of a kind of request; nil for other kinds.
func empty(d *manifest.Document) client.Object {
	switch d.Group() + "/" + d.Kind {
	case certificatesv1.GroupName + "/CertificateSigningRequest":
		return &certificatesv1.CertificateSigningRequest{}
	case certificatesv1.GroupName + "/PodCertificateRequest":
		return &certificatesv1beta1.PodCertificateRequest{}
	case certmanager.Group + "/" + cmv1.CertificateRequestKind:
		return &cmv1.CertificateRequest{}
	case certmanager.Group + "/" + cmv1.CertificateKind:
		return &cmv1.Certificate{}
	}
	return nil
}

func (o *Options) ofDocument(d *manifest.Document) (*Asked, error) {
	object := empty(d)
	if object == nil {
		return nil, d.Errorf("kind", "%s", unknownKind(d))
	}
	if err := d.Decode(object); err != nil {
		return nil, err
	}
	asked, err := o.OfObject(object)
	if err != nil {
		return nil, d.Errorf("", "%s %s: %v", d.Kind, d.Name, err)
	}
	return asked, nil
}

func unknownKind(d *manifest.Document) string {
	text := fmt.Sprintf("a %s of %s is not a request: give a CertificateSigningRequest, PodCertificateRequest, CertificateRequest or Certificate", d.Kind, d.APIVersion)
	if d.Group() == v1alpha1.GroupName {
		text += "; policies are given with --policies"
	}
	return text
}

// OfJSON returns the request in the JSON of an object, and nil for another kind. It
// accepts unknown fields.
func (o *Options) OfJSON(group, kind string, data []byte) (*Asked, error) {
	object := empty(&manifest.Document{APIVersion: group + "/v1", Kind: kind})
	if object == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, object); err != nil {
		return nil, err
	}
	return o.OfObject(object)
}

// ofPEM returns the request that a client would create with a PKCS#10 request.
func (o *Options) ofPEM(file string, data []byte) (*Asked, error) {
	block, _ := pem.Decode(data)
	switch {
	case block == nil:
		return nil, errors.New("the PEM block cannot be read")
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return nil, errors.New("this is a private key: give the certificate request that was created with it")
	case block.Type == "NEW "+pki.RequestBlockType:
		return nil, fmt.Errorf("the API accepts only the block type %s: create it with openssl req -out", pki.RequestBlockType)
	case block.Type != pki.RequestBlockType:
		return nil, fmt.Errorf("this is a %s: a %s is needed", block.Type, pki.RequestBlockType)
	}
	if o.Signer == "" {
		return nil, errors.New("a PKCS#10 request names no signer: name it with --signer, such as kubernetes.io/kube-apiserver-client or clusterissuers.cert-manager.io/NAME")
	}
	object, err := o.around(data)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(title(file))
	object.SetName(strings.TrimSuffix(base, filepath.Ext(base)))
	return o.OfObject(object)
}

// around returns the object for a PKCS#10 request.
func (o *Options) around(data []byte) (client.Object, error) {
	kind := o.Kind
	if _, isIssuer := certmanager.ParseSignerName(o.Signer); kind == "" && isIssuer && o.Namespace != "" {
		kind = v1alpha1.CertificateRequests
	}
	switch kind {
	case "", v1alpha1.CertificateSigningRequests:
		if form := certmanager.SignerForm(o.Signer); form != "" {
			return nil, fmt.Errorf("the signer %q is not the name of an issuer: it must have the form %s", o.Signer, form)
		}
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: data}}, nil
	case v1alpha1.CertificateRequests:
		return &cmv1.CertificateRequest{Spec: cmv1.CertificateRequestSpec{Request: data}}, nil
	}
	return nil, fmt.Errorf("a PKCS#10 request alone cannot be a %s: give the object", kind)
}

// Kinds are the kinds of requests.
var Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests, v1alpha1.CertificateRequests, v1alpha1.PodCertificateRequests}

// ParseKind parses a kind of requests.
func ParseKind(text string) (v1alpha1.RequestKind, error) {
	if text == "" || slices.Contains(Kinds, v1alpha1.RequestKind(text)) {
		return v1alpha1.RequestKind(text), nil
	}
	return "", fmt.Errorf("%q is not a kind of request: use CertificateSigningRequest, CertificateRequest or PodCertificateRequest", text)
}
