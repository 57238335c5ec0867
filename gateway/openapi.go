package gateway

import (
	_ "embed" // the OpenAPI document
	"net/http"
)

//go:embed openapi.json
var openAPIDocument []byte

func (g *Gateway) openAPI(http.ResponseWriter, *http.Request, *request) *response {
	return &response{status: http.StatusOK, body: openAPIDocument}
}
