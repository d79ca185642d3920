package apiserver

import (
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"

	"github.com/certplane/certplane/internal/buildinfo"
)

// servedVersion is the Kubernetes version whose API the server speaks: the
// version of the Kubernetes libraries that it is built from.
type servedVersion struct {
	basecompatibility.MutableEffectiveVersion
}

func newServedVersion() servedVersion {
	return servedVersion{compatibility.DefaultBuildEffectiveVersion()}
}

// Info is what /version answers. Clients compare gitVersion, so it is a
// Kubernetes version; what is behind the plus sign is ours (semver.org).
func (v servedVersion) Info() *apimachineryversion.Info {
	build := buildinfo.Read()
	info := v.MutableEffectiveVersion.Info()
	info.GitVersion = build.Kubernetes + "+certplane"
	info.GitCommit, info.GitTreeState, info.BuildDate = build.Revision, "", build.Time
	return info
}
