package server

type saver struct{}
