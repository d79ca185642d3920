#!/usr/bin/env bash
# Makes every generated file.
set -euo pipefail
cd "$(dirname "$0")/.."

# Packages whose types the API serves.
packages=(
  k8s.io/api/admissionregistration/v1
  k8s.io/api/authentication/v1
  k8s.io/api/authorization/v1
  k8s.io/api/certificates/v1
  k8s.io/api/certificates/v1alpha1
  k8s.io/api/certificates/v1beta1
  k8s.io/api/coordination/v1
  k8s.io/api/core/v1
  k8s.io/api/events/v1
  k8s.io/api/rbac/v1
  k8s.io/apimachinery/pkg/api/resource
  k8s.io/apimachinery/pkg/apis/meta/v1
  k8s.io/apimachinery/pkg/runtime
  k8s.io/apimachinery/pkg/util/intstr
  k8s.io/apimachinery/pkg/version
)

# Kubernetes' types have their own OpenAPI names, so none are generated (readonly-pkg).
# Warnings about field names in Kubernetes' types cannot be fixed here.
go tool -modfile=hack/tools/go.mod openapi-gen \
  --go-header-file hack/boilerplate.go.txt \
  --output-dir internal/generated/openapi \
  --output-pkg github.com/certplane/certplane/internal/generated/openapi \
  --output-file zz_generated.openapi.go \
  --output-model-name-file zz_generated.model_name.go \
  "${packages[@]/#/--readonly-pkg=}" \
  --report-filename /dev/null \
  "${packages[@]}" ./api/inventory/v1alpha1

go tool -modfile=hack/tools/go.mod controller-gen \
  object:headerFile=hack/boilerplate.go.txt crd paths=./api/certplane/... \
  output:object:dir=api/certplane/v1alpha1 output:crd:dir=internal/generated/crds
go tool -modfile=hack/tools/go.mod controller-gen crd \
  paths=github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1 \
  paths=github.com/cert-manager/cert-manager/pkg/apis/acme/v1 \
  output:crd:dir=internal/generated/crds
go tool -modfile=hack/tools/go.mod controller-gen \
  object:headerFile=hack/boilerplate.go.txt paths=./api/inventory/... \
  output:object:dir=api/inventory/v1alpha1
go tool -modfile=hack/tools/go.mod controller-gen \
  object:headerFile=hack/boilerplate.go.txt crd paths=./internal/api/trustmanager \
  output:object:dir=internal/api/trustmanager output:crd:dir=internal/generated/crds
# The kinds that are served only if the configuration enables them.
go tool -modfile=hack/tools/go.mod controller-gen \
  object:headerFile=hack/boilerplate.go.txt crd paths=./internal/api/approverpolicy \
  output:object:dir=internal/api/approverpolicy output:crd:dir=internal/generated/crds/optional
go run ./hack/crds internal/generated/crds "$(go list -m -f '{{.Version}}' github.com/cert-manager/cert-manager)"

generator=$(go tool -modfile=hack/tools/go.mod -n controller-gen)
(cd examples/external-issuer && "$generator" object crd paths=./api/... output:crd:dir=deploy/crds)

go run ./hack/configdoc ServerConfiguration > internal/run/server/zz_generated.defaults.yaml
go run ./hack/configdoc ControllersConfiguration > internal/run/cluster/zz_generated.defaults.yaml
go run ./hack/configdoc AgentConfiguration > internal/agent/zz_generated.defaults.yaml
go run ./hack/rightsdoc > docs/controllers.md
go run ./hack/chart
