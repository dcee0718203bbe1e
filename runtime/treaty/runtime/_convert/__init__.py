"""From one format to another: conversion, comparison, key maps, and the lazy arrays they work on."""
