package podsync

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/agent/projection"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/agent/token"
)

// sourceResult is the result of a source.
type sourceResult struct {
	parts []projection.Part
	// missing reports that parts contains no new content: the files on disk stay.
	missing bool
	err     error
	// wake is when the source is due.
	wake time.Time
	told status.Source
}

// newResult returns the result of a source whose files are parts.
func newResult(kind, name string, parts []projection.Part, err error) sourceResult {
	g := sourceResult{parts: parts, missing: err != nil, err: err, told: status.Source{Kind: kind, Name: name, Ready: err == nil}}
	if err != nil {
		g.told.Error, g.told.Waiting = explain(err)
	}
	return g
}

func (v *podSync) source(ctx context.Context, s *volumeState, source *corev1.VolumeProjection) sourceResult {
	var g sourceResult
	switch {
	case source.PodCertificate != nil:
		g = v.certificate(ctx, s, source.PodCertificate)
	case source.ClusterTrustBundle != nil:
		g = v.trustBundle(ctx, source.ClusterTrustBundle)
	case source.ServiceAccountToken != nil:
		g = v.token(ctx, s, source.ServiceAccountToken)
	case source.ConfigMap != nil:
		g = v.configMap(ctx, source.ConfigMap)
	case source.Secret != nil:
		g = v.secret(ctx, source.Secret)
	}
	if paths := pathsOf(source); len(paths) > 0 {
		g.told.Path = paths[0]
	}
	for _, part := range g.parts {
		g.told.Files = append(g.told.Files, part.Path)
	}
	return g
}

// pathsOf returns the paths that a manifest gives to a source's files; none if
// they depend on an object.
func pathsOf(source *corev1.VolumeProjection) []string {
	var paths []string
	items := func(items []corev1.KeyToPath) {
		for _, item := range items {
			paths = append(paths, item.Path)
		}
	}
	switch {
	case source.PodCertificate != nil:
		s := source.PodCertificate
		paths = slices.DeleteFunc([]string{s.CredentialBundlePath, s.KeyPath, s.CertificateChainPath}, func(p string) bool { return p == "" })
	case source.ClusterTrustBundle != nil:
		paths = []string{source.ClusterTrustBundle.Path}
	case source.ServiceAccountToken != nil:
		paths = []string{source.ServiceAccountToken.Path}
	case source.ConfigMap != nil:
		items(source.ConfigMap.Items)
	case source.Secret != nil:
		items(source.Secret.Items)
	}
	return paths
}

func (v *podSync) trustBundle(ctx context.Context, source *corev1.ClusterTrustBundleProjection) sourceResult {
	name := ""
	switch {
	case source.Name != nil:
		name = *source.Name
	case source.SignerName != nil:
		name = *source.SignerName
	}
	anchors, err := v.k.bundles.Get(ctx, source)
	if err != nil {
		return newResult("clusterTrustBundle", name, nil, err)
	}
	return newResult("clusterTrustBundle", name, projection.TrustBundle(source, anchors), nil)
}

// token serves the last token even after it has expired: its readers have no better
// content.
func (v *podSync) token(ctx context.Context, s *volumeState, source *corev1.ServiceAccountTokenProjection) sourceResult {
	key, now := "token:"+source.Path, v.k.Clock.Now()
	record := s.Tokens[key]
	err := errUnregistered
	if v.pod != nil {
		err = nil
		if purpose := token.For(v.pod, source); !record.ValidFor(purpose, now) {
			var next token.Record
			if next, err = token.Request(ctx, v.k.Client.CoreV1().ServiceAccounts(v.pod.Namespace), v.pod, purpose, now); err == nil {
				record = next
				s.Tokens[key] = record
				err = s.save()
			}
		}
	}
	g := newResult("serviceAccountToken", v.manifest.Spec.ServiceAccountName, nil, err)
	if record.Token != "" {
		g.parts, g.missing, g.told.Ready = projection.Token(source, []byte(record.Token)), false, true
		expires, refresh := record.ExpiresAt, record.RefreshAt()
		g.told.NotAfter, g.told.RefreshAt = &expires, &refresh
	}
	if err == nil {
		g.wake = record.RefreshAt()
	}
	return g
}

func (v *podSync) configMap(ctx context.Context, source *corev1.ConfigMapProjection) sourceResult {
	if v.pod == nil {
		return newResult("configMap", source.Name, nil, errUnregistered)
	}
	object, err := v.k.Client.CoreV1().ConfigMaps(v.pod.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = nil, nil
	}
	if err != nil {
		return newResult("configMap", source.Name, nil, err)
	}
	parts, err := projection.ConfigMap(source, object)
	return newResult("configMap", source.Name, parts, err)
}

func (v *podSync) secret(ctx context.Context, source *corev1.SecretProjection) sourceResult {
	if v.pod == nil {
		return newResult("secret", source.Name, nil, errUnregistered)
	}
	object, err := v.k.Client.CoreV1().Secrets(v.pod.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = nil, nil
	}
	if err != nil {
		return newResult("secret", source.Name, nil, err)
	}
	parts, err := projection.Secret(source, object)
	return newResult("secret", source.Name, parts, err)
}

// certificateKey returns the key of a source in the record of its volume.
func certificateKey(source *corev1.PodCertificateProjection) string {
	return strings.Join([]string{"certificate", source.CredentialBundlePath, source.KeyPath, source.CertificateChainPath}, ":")
}
